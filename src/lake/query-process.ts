import { rmSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { EXIT_REFUSED, QueryRefused, type QueryRequest, queryWithin } from './bounded-query.ts'
import { openLakeStore } from './open-lake-store.ts'

// See run-query.ts. Standard input stays open while a caller waits for the answer.
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
    const elapsedMs = Math.round(performance.now())
    const head = `{"columns":${JSON.stringify(columns)},"is_truncated":${isTruncated},"elapsed_ms":${elapsedMs},"rows":[`
    end(0, process.stdout, `${head}${rows.join(',')}]}`)
  } catch (error) {
    if (error instanceof QueryRefused) end(EXIT_REFUSED, process.stdout, error.message)
    else end(1, process.stderr, error instanceof Error ? error.message : String(error))
  }
})

/** Ends as soon as the text is written, even while DuckDB works. */
function end(status: number, stream: NodeJS.WriteStream, text: string): void {
  stream.write(text, () => process.exit(status))
}
