import { type AuditKind, finishRun, type RunOutcome, recordRun, reportRun } from '../audit/audit-runs.ts'
import type { OnStep } from '../audit/on-step.ts'
import type { VerifyReport } from '../audit/verify/verify.ts'
import { OperatorError } from '../errors.ts'
import { every } from '../loop.ts'
import { withinMs } from '../within-ms.ts'
import type { Contexts, Terminal } from './command.ts'
import { explainError } from './explain-error.ts'
import { withProgress } from './progress.ts'

const EVERY_MS = 1_000
const HEARTBEAT_MS = 5_000
const PATIENCE_MS = 5_000
const LATE = Symbol('late')
const MAX_EXAMPLES = 20
const MAX_EXAMPLE_LENGTH = 300
const MAX_OUTPUT = 30_000

export interface Audit {
  kind: AuditKind
  command: string
  /** The id of an existing record, if the console started the run. */
  id: string | undefined
}

/** `terminal` prints, and what it prints is recorded. */
export interface AuditRecord {
  terminal: Terminal
  withSteps<T>(text: string, work: (onStep: OnStep) => Promise<T>): Promise<T>
  setResult(result: object): void
}

/** Runs an audit and records it for the console. The audit continues if the database refuses the record. */
export async function withRecord(
  context: Contexts['database'],
  audit: Audit,
  work: (record: AuditRecord) => Promise<number>,
): Promise<number> {
  const recording = await Recording.begin(context, audit)
  try {
    const exitStatus = await work(recording)
    await recording.finish(exitStatus)
    return exitStatus
  } catch (error) {
    const explained = explainError(error) ?? { message: String(error), exitStatus: 1 }
    recording.add(`storefront: ${explained.message}`)
    await recording.finish(explained.exitStatus, { isFailed: true })
    throw error
  }
}

class Recording implements AuditRecord {
  readonly terminal: Terminal
  readonly #context: Contexts['database']
  #id: string | null = null
  #output = ''
  #result: object | null = null
  #step: string | null = null
  #writtenStep: string | null = null
  #writtenAt = performance.now()
  #isWriting = false
  #endBeats = () => {}

  private constructor(context: Contexts['database']) {
    this.#context = context
    const { out, err, exit } = context.terminal
    const recorded = (print: (line: string) => void) => (line: string) => {
      this.add(line)
      print(line)
    }
    this.terminal = { out: recorded(out), err: recorded(err), exit }
  }

  /** Throws OperatorError if the console has given up the run because this process began too late. */
  static async begin(context: Contexts['database'], { id, ...audit }: Audit): Promise<Recording> {
    const { pool } = context
    const recording = new Recording(context)
    const known = await recording.#try(async () =>
      id === undefined ? recordRun(pool, audit) : (await reportRun(pool, id, 'starting')) ? id : '',
    )
    if (known === '') throw new OperatorError(`the run ${id} is over, or was never recorded`)
    recording.#id = known
    // The timer must not keep a process alive after its work.
    if (known !== null) recording.#endBeats = every(EVERY_MS, () => void recording.#beat(), { ref: false })
    return recording
  }

  add(line: string): void {
    if (this.#output.length < MAX_OUTPUT) this.#output += this.#output === '' ? line : `\n${line}`
  }

  readonly withSteps = <T>(text: string, work: (onStep: OnStep) => Promise<T>): Promise<T> => {
    this.#step = text
    return withProgress(text, ({ show }) =>
      work((step) => {
        this.#step = step
        show(step)
      }),
    )
  }

  readonly setResult = (result: object): void => {
    this.#result = result
  }

  async finish(exitStatus: number, { isFailed = false } = {}): Promise<void> {
    this.#endBeats()
    const id = this.#id
    if (id === null) return
    const outcome: RunOutcome = { exitStatus, result: isFailed ? null : this.#result, output: this.#output }
    await this.#try(() => finishRun(this.#context.pool, id, outcome))
  }

  async #beat(): Promise<void> {
    const isDue = this.#step !== this.#writtenStep || performance.now() - this.#writtenAt > HEARTBEAT_MS
    if (this.#isWriting || !isDue || this.#id === null) return
    this.#isWriting = true
    const [id, step] = [this.#id, this.#step]
    // A failed write is retried in a second, and the end reports it.
    const isWritten = await reportRun(this.#context.pool, id, step).catch(() => null)
    if (isWritten !== null) {
      this.#writtenStep = step
      this.#writtenAt = performance.now()
    }
    this.#isWriting = false
  }

  async #try<T>(work: () => Promise<T>): Promise<T | null> {
    try {
      const answer = await withinMs(PATIENCE_MS, work(), LATE)
      if (answer === LATE) throw new Error(`the database did not answer within ${PATIENCE_MS / 1_000} s`)
      return answer
    } catch (error) {
      this.#context.logger.warn(
        { reason: error instanceof Error ? error.message : String(error) },
        'this run is not recorded for the console',
      )
      return null
    }
  }
}

/** A record has fewer examples than the report. */
export function summarizeReport(report: VerifyReport): VerifyReport {
  const findings = report.findings.map((finding) => ({
    ...finding,
    examples: finding.examples.slice(0, MAX_EXAMPLES).map((example) => example.slice(0, MAX_EXAMPLE_LENGTH)),
  }))
  return { ...report, findings }
}
