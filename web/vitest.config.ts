import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["src/**/*_test.ts"],
    testTimeout: 60_000, // A test takes milliseconds, but the machine may be busy.
    setupFiles: ["src/testing/fake_browser.ts"],
  },
});
