// Put at the end of the sample in JavaScript, in the place of `serve()`: it does one thing, and ends.
const { readFileSync, readdirSync } = await import("node:fs");

if (process.argv[2] === "read") { // prints the names of the files in `bodies` that are read as requests
  for (const name of readdirSync("bodies")) {
    try {
      read({ body: readFileSync(`bodies/${name}`) });
      console.log("taken", name);
    } catch {}
  }
} else { // answers `request.json`
  ledger.exec("PRAGMA busy_timeout = 50");
  const request = JSON.parse(readFileSync("request.json"));
  await untilUsable(openLedger, () => false);
  console.log("open");
  const reply = await untilUsable(() => answer(request), () => isLate(request));
  console.log(reply?.outcome ?? "silent");
}
