// Rows that would belong to what is shown, and can't be read: they hide no others.

import { table } from "./tables.js";

export function unreadable({ unreadable: rows }) {
  if (rows.length === 0) return null;
  return table("Rows that can’t be read", ["Row", "Why"], rows.map((row) => [row.key, row.reason]));
}
