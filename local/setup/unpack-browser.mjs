// Unpacks the Chromium of npm's @sparticuz/chromium into node_modules/.chromium, with its libraries and fonts.
// It is built for Linux on x64. Where it does not run, nothing stays; tests/e2e/console/browser.py finds another.

import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const FOLDER = fileURLToPath(new URL("../../node_modules/.chromium", import.meta.url));

// The package's own file names folders of AWS Lambda. A system's fonts come first, where there are any.
const FONTS = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <dir prefix="relative">fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
`;

if (process.platform === "linux" && process.arch === "x64") {
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER);
  process.env.TMPDIR = FOLDER; // where the package unpacks
  process.env.AWS_EXECUTION_ENV = "AWS_Lambda_nodejs20.x"; // asks it for the libraries that a bare system lacks
  try {
    const { default: chromium } = await import("@sparticuz/chromium");
    const executable = await chromium.executablePath();
    writeFileSync(join(FOLDER, "fonts", "fonts.conf"), FONTS);
    const environment = { ...process.env, LD_LIBRARY_PATH: join(FOLDER, "al2023", "lib") };
    execFileSync(executable, ["--version"], { env: environment, stdio: "ignore" });
  } catch {
    rmSync(FOLDER, { recursive: true, force: true });
  }
}
