/** Plotly, loaded when the first chart needs it, under a policy that allows no inline style. */

let loading = null;

/** Resolves with the library. */
export function loadPlotly() {
  loading ??= new Promise((resolve, reject) => {
    replaceStyles();
    replaceStyleAttributes();
    const script = document.createElement("script");
    script.src = "/static/plotly/plotly.min.js";
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => {
      loading = null;
      reject(new Error("The chart library could not be loaded"));
    };
    document.head.append(script);
  });
  return loading;
}

// Plotly and the map library inside it put their style sheets into the page as inline elements, which the policy refuses,
// unless elements with these ids are there (the second is part of this Plotly release). What the charts need of them
// stands in stages.css.
const STYLES = ["plotly.js-style-global", "9f215cf04c5486422605d13261cb87401f4e7763b6296af81e98efbc0130da53"];

function replaceStyles() {
  for (const id of STYLES) {
    const marker = document.createElement("meta");
    marker.id = id;
    marker.className = "no-inline-styles";
    document.head.append(marker);
  }
}

// A heat map without gaps is an image that Plotly gives a style attribute. The policy refuses it as an attribute and
// allows the same through the object model.
function replaceStyleAttributes() {
  const { setAttribute } = Element.prototype;
  SVGElement.prototype.setAttribute = function setWithoutAttribute(name, value) {
    if (name === "style") this.style.cssText = value;
    else setAttribute.call(this, name, value);
  };
}

/** What all charts share: the page's own type and ink on its own ground. */
export function baseLayout(themed) {
  const axis = {
    gridcolor: themed("line"), linecolor: themed("line"), zerolinecolor: themed("line"), tickcolor: themed("line"),
    fixedrange: true,
  };
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: false, showlegend: false,
    font: { family: "ui-monospace, DejaVu Sans Mono, monospace", size: 11, color: themed("ink") },
    axis,
  };
}

export const CONFIG = { displayModeBar: false, responsive: false, scrollZoom: false, doubleClick: false };
