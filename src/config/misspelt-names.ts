// Names that the store does not read: AWS's SDK has many more than the store reads, and OpenTelemetry has settings for
// logs and metrics.
const FOREIGN = /^(?:AWS_|OTEL_(?:BLRP|LOGS|METRICS|METRIC)_|OTEL_EXPORTER_OTLP_(?:LOGS|METRICS)_)/
const LONG_NAME = 10

/** The variable names that resemble one in `known`, with the nearest. Never shows a value. */
export function findMisspeltNames(env: NodeJS.ProcessEnv, known: readonly string[]): string[] {
  return Object.keys(env).flatMap((name) => {
    if (known.includes(name) || FOREIGN.test(name)) return []
    // Two changed letters turn a short name into another word: NATS_PORT, which Kubernetes sets, is not a misspelt
    // NATS_CERT.
    const most = name.length >= LONG_NAME ? 2 : 1
    const [nearest] = known
      .filter((setting) => Math.abs(setting.length - name.length) <= most)
      .map((setting) => ({ setting, distance: distanceBetween(name.toUpperCase(), setting) }))
      .filter(({ distance }) => distance <= most)
      .toSorted((a, b) => a.distance - b.distance)
    return nearest === undefined ? [] : [`${name} is no setting: did you mean ${nearest.setting}?`]
  })
}

/** The optimal string alignment distance: the number of letters to insert, drop, replace or swap with a neighbour. */
function distanceBetween(a: string, b: string): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, column) => column)]
  const at = (row: number, column: number) => rows[row]?.[column] ?? Number.POSITIVE_INFINITY
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    rows.push(current)
    for (let column = 1; column <= b.length; column++) {
      const replaced = at(row - 1, column - 1) + (a[row - 1] === b[column - 1] ? 0 : 1)
      const isSwapped = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      const swapped = isSwapped ? at(row - 2, column - 2) + 1 : Number.POSITIVE_INFINITY
      current[column] = Math.min(at(row - 1, column) + 1, at(row, column - 1) + 1, replaced, swapped)
    }
  }
  return at(a.length, b.length)
}
