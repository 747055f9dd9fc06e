"use strict";
// Named one by one: among plotly's own choice is one that uploads the plot.
const buttons = [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]];
const config = {
  responsive: true, displaylogo: false, displayModeBar: "hover", modeBarButtons: buttons,
  plotlyServerURL: "", showSendToCloud: false,
};
for (const place of document.querySelectorAll("[data-figure]")) {
  const figure = JSON.parse(document.getElementById(place.dataset.figure).textContent);
  Plotly.newPlot(place, figure.data, figure.layout, config);
}
addEventListener("beforeprint", () => {
  for (const place of document.querySelectorAll("[data-figure]")) Plotly.Plots.resize(place);
});
