/** Plotly, loaded when the first chart needs it, under a policy that allows no inline style. */

let loading = null;

/** Resolves with the library. */
export function loadPlotly() {
  loading ??= new Promise((resolve, reject) => {
    allowStyles();
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

/**
 * Plotly adds its style sheet as an inline element unless one with this id and class is there: what it needs stands in
 * stages.css. The few style attributes it writes into its pictures are refused by the policy as attributes, but are
 * fine through the object model.
 */
function allowStyles() {
  const marker = document.createElement("meta");
  marker.id = "plotly.js-style-global";
  marker.className = "no-inline-styles";
  document.head.append(marker);
  const { setAttribute } = Element.prototype;
  SVGElement.prototype.setAttribute = function setSafely(name, value) {
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
