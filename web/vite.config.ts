import { defineConfig } from "vite";

export default defineConfig({
  base: "./", // Whatever path a proxy puts before the page, its files are beside it.
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: {
    target: "es2022",
    assetsInlineLimit: 0, // The page's own policy lets nothing inline run.
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    rollupOptions: { output: { entryFileNames: "assets/[name]-[hash].js", chunkFileNames: "assets/[name]-[hash].js", assetFileNames: "assets/[name]-[hash][extname]" } },
  },
});
