"""What each stage says about a request: the types of its reports, how they are filled and timed."""
