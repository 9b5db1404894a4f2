"""What the page teaches beside the run: words, figures and contrasts that hold for every request."""
