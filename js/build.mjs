// Builds the one bundle that ships: the kernel hands it to the browser as text, so it can import nothing.
import { build } from "esbuild";

const out = "../agentflex_nb/widgets/static";

await build({
  entryPoints: { panel: "src/panel.js" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "inline",
  logLevel: "info",
});
await build({ entryPoints: { panel: "src/panel.css" }, outdir: out, minify: true, logLevel: "info" });
