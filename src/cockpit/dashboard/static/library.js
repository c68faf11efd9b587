// The drawing library: loaded beside the data, because it is large and, at the very first start, still being made.

import { ask } from "./net.js";

export const library = new Promise((found, missing) => {
  const script = document.createElement("script");
  script.src = "vega.js";
  script.onload = () => found(window.vegaEmbed);
  script.onerror = () => ask("vega.js").catch(missing); // the answer says what is missing
  document.head.append(script);
});
