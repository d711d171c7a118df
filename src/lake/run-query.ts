import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { setPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { AppError } from '../errors.ts'
import { EXIT_REFUSED, type QueryRequest } from './bounded-query.ts'
import type { LakePlace } from './open-lake-store.ts'

/** The limits of a query. See docs/decisions/lake-queries.md. */
export const MAX_QUERY_ROWS = 10_000
export const MAX_QUERY_CHARACTERS = 20_000
const DEFAULT_TIMEOUT_MS = 10_000
const MAX_ROW_BYTES = 8 * 1_048_576
const MAX_OUTPUT_BYTES = MAX_ROW_BYTES + 1_048_576
const MAX_QUERIES = 3
const DUCKDB_MEMORY = '512MB'
const SPILL = '1GB'
/** Limits the memory that Node.js and DuckDB reserve. They reserve about 640 MB more than they use. */
const PROCESS_MEMORY_KIB = 1_500_000
const CPU_SECONDS = 30
const RETRY_SECONDS = 2

const CHILD = fileURLToPath(new URL('query-process.ts', import.meta.url))
const STRIP_TYPES = new URL('../../bin/strip-types.mjs', import.meta.url).href
const PRIORITY = 10
/** DuckDB cannot exceed these bounds. Linux ends this process first when memory is short. */
const SHELL = `ulimit -c 0; ulimit -t ${CPU_SECONDS}; ulimit -d ${PROCESS_MEMORY_KIB} 2>/dev/null
{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null
exec "$@"`

export interface LakeQueriesOptions {
  place: LakePlace
  /** Whether a missing folder means a lake without files. Otherwise the folder may be on another machine. */
  mayBeMissing: boolean
  /** Variables that the object store needs. The query process gets no others. */
  environment: Readonly<Record<string, string>>
  timeoutMs?: number
  temporaryDirectory?: string
}

/** `signal` aborts when no caller waits any more. */
export interface LakeQuery {
  operatorId: string
  text: string
  limit: number
  signal: AbortSignal
  onStart?: () => Promise<void>
}

export class LakeQueries {
  readonly #options: LakeQueriesOptions
  readonly #running = new Set<string>()

  constructor(options: LakeQueriesOptions) {
    this.#options = options
  }

  /** The answer as JSON. Throws `rate_limited`, `unavailable`, `query_refused` or `query_timeout`. */
  async run({ operatorId, text, limit, signal, onStart }: LakeQuery): Promise<Buffer> {
    const { place, mayBeMissing, environment, timeoutMs = DEFAULT_TIMEOUT_MS, temporaryDirectory = tmpdir() } = this.#options
    if (place.bucket === null && !mayBeMissing && !existsSync(place.directory))
      throw new AppError(
        'unavailable',
        'This process cannot find the lake. Set LAKE_URL, or set DATA_DIR to the folder of the process with the role lake.',
      )
    const headers = { 'retry-after': String(RETRY_SECONDS) }
    if (this.#running.has(operatorId))
      throw new AppError('rate_limited', 'Your last query still runs. Wait until it has ended, or cancel it.', { headers })
    if (this.#running.size >= MAX_QUERIES)
      throw new AppError('unavailable', `${MAX_QUERIES} queries of other operators are running. Retry in a moment.`, { headers })
    this.#running.add(operatorId)
    try {
      await onStart?.()
      const spillDirectory = await mkdtemp(join(temporaryDirectory, 'storefront-query-'))
      try {
        const bounds = { maxRows: limit, maxBytes: MAX_ROW_BYTES, memory: DUCKDB_MEMORY, spill: SPILL, spillDirectory }
        return await runProcess({ place, text, bounds }, environment, timeoutMs, signal)
      } finally {
        await rm(spillDirectory, { recursive: true, force: true })
      }
    } finally {
      this.#running.delete(operatorId)
    }
  }
}

async function runProcess(
  request: QueryRequest,
  env: Readonly<Record<string, string>>,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Buffer> {
  const args = ['-c', SHELL, 'sh', process.execPath, '--import', STRIP_TYPES, CHILD]
  const child = spawn('/bin/sh', args, { stdio: 'pipe', env: { ...env }, cwd: '/' })
  if (child.pid !== undefined) setPriority(child.pid, PRIORITY)
  let reason: AppError | null = null
  const kill = (why: AppError) => {
    reason ??= why
    child.kill('SIGKILL')
  }
  const tooLong = new AppError('query_timeout', `The query took longer than ${timeoutMs / 1_000} seconds and was ended.`)
  const timer = setTimeout(() => kill(tooLong), timeoutMs)
  const onAbort = () => kill(new AppError('query_timeout', 'The query was cancelled.'))
  signal.addEventListener('abort', onAbort)
  if (signal.aborted) onAbort()
  try {
    const output = collect(child, () => kill(new AppError('query_refused', 'The names and types of the columns are too long.')))
    // Standard input stays open, so the query process ends when this process does.
    child.stdin?.on('error', () => {})
    child.stdin?.write(`${JSON.stringify(request)}\n`)
    const [status, endedBy] = await new Promise<[number | null, string | null]>((resolve, reject) =>
      child.on('error', reject).on('close', (...end) => resolve(end)),
    )
    if (reason !== null) throw reason
    if (status === 0) return output('stdout')
    if (status === EXIT_REFUSED) throw new AppError('query_refused', output('stdout').toString())
    const cause = new Error(`the process of a lake query ended with ${endedBy ?? status}: ${output('stderr')}`)
    // Node.js ends like this if it gets no memory.
    if (endedBy !== null || (status ?? 0) > 128)
      throw new AppError('query_refused', "The query's process was ended. The query may need more memory than is allowed.", { cause })
    throw new AppError('unavailable', 'The lake cannot be read now. Retry in a moment.', { cause })
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
    child.stdin?.destroy()
  }
}

function collect(child: ChildProcess, onTooMuch: () => void): (name: 'stdout' | 'stderr') => Buffer {
  const parts: Record<'stdout' | 'stderr', Buffer[]> = { stdout: [], stderr: [] }
  let bytes = 0
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.on('data', (part: Buffer) => {
      bytes += part.length
      if (bytes > MAX_OUTPUT_BYTES) onTooMuch()
      else parts[name].push(part)
    })
  }
  return (name) => Buffer.concat(parts[name])
}
