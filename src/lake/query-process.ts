import { rmSync, writeSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { EXIT_REFUSED, QueryRefused, type QueryRequest, queryWithin } from './bounded-query.ts'
import { openLakeStore } from './open-lake-store.ts'

// The process of one query: see run-query.ts. Its standard input stays open while somebody waits for the answer.
const lines = createInterface(process.stdin)
lines.once('line', async (line) => {
  const { place, text, bounds }: QueryRequest = JSON.parse(line)
  lines.once('close', () => {
    rmSync(bounds.spillDirectory, { recursive: true, force: true })
    process.kill(process.pid, 'SIGKILL')
  })
  try {
    const store = await openLakeStore(place)
    // Killed queries leave their workspaces behind.
    await store.removeOldWorkspaces()
    const { columns, rows, isTruncated } = await queryWithin(store, text, bounds)
    // The time since this process was started.
    const elapsedMs = Math.round(performance.now())
    const head = `{"columns":${JSON.stringify(columns)},"is_truncated":${isTruncated},"elapsed_ms":${elapsedMs},"rows":[`
    end(0, 1, `${head}${rows.join(',')}]}`)
  } catch (error) {
    if (error instanceof QueryRefused) end(EXIT_REFUSED, 1, error.message)
    else end(1, 2, error instanceof Error ? error.message : String(error))
  }
})

/** Ends at once, whatever DuckDB still does. */
function end(status: number, descriptor: number, text: string): never {
  const bytes = Buffer.from(text)
  for (let sent = 0; sent < bytes.length; ) sent += writeSync(descriptor, bytes, sent)
  process.exit(status)
}
