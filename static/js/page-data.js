/** What the service put into the page: the catalogues, and for whoever asks the models, settings and limits. */

export const page = JSON.parse(document.getElementById("page-data").textContent);
