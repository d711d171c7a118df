import type { Logger } from 'pino'
import { type AuditContext, recordActivity } from '../activity/record-activity.ts'
import { loggableError } from '../db/loggable-error.ts'
import type { Pool } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import { type AuditKind, type AuditRun, beginRun, failUnfinishedRun } from './audit-runs.ts'

const MAX_RUN_MS = 30 * 60_000
const MAX_REASON = 2_000

export interface AuditRunnerOptions {
  pool: Pool
  runCommand: RunCommand | undefined
  logger: Logger
  maxRunMs?: number
}

export class AuditRunner {
  readonly #options: AuditRunnerOptions
  readonly #stopping = new AbortController()
  readonly #inFlight = new Set<Promise<void>>()

  constructor(options: AuditRunnerOptions) {
    this.#options = options
  }

  async start(): Promise<void> {}

  /** Ends the processes, and records that. Idempotent. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await Promise.all(this.#inFlight)
  }

  /**
   * Starts a run. Throws `unavailable` if this process cannot start commands, and `request_in_progress` if a run of
   * this kind is in progress in any process.
   */
  async run(kind: AuditKind, auditContext: AuditContext): Promise<AuditRun> {
    const { pool, runCommand, logger } = this.#options
    if (runCommand === undefined || this.#stopping.signal.aborted)
      throw new AppError('unavailable', 'This process of the store cannot start commands.')
    const { run, isNew } = await beginRun(pool, {
      ...{ kind, command: `storefront ${kind}`, startedBy: auditContext.actor.id },
      onBegun: (tx, id) => recordActivity(tx, auditContext, { subjectType: 'audit', subjectId: id, before: null, after: { kind } }),
    })
    if (!isNew) {
      throw new AppError('request_in_progress', `A ${kind} is in progress: ${run.command}, started at ${run.started_at.toISOString()}.`, {
        members: { run_id: run.id },
      })
    }
    const running: Promise<void> = this.#watch(run, runCommand)
      // If this record fails, the missing heartbeat has the same effect later.
      .catch((error) => logger.warn({ err: loggableError(error), runId: run.id }, 'the end of an audit could not be recorded'))
      .finally(() => this.#inFlight.delete(running))
    this.#inFlight.add(running)
    return run
  }

  async #watch({ id, kind }: AuditRun, runCommand: RunCommand): Promise<void> {
    const { pool, maxRunMs = MAX_RUN_MS } = this.#options
    const late = AbortSignal.timeout(maxRunMs)
    const reason = await runCommand([kind, '--run', id], { signal: AbortSignal.any([this.#stopping.signal, late]) }).then(
      ({ status, stderr }) => `${status === null ? 'The process was killed.' : `The process ended with status ${status}.`} ${stderr}`,
      (error: Error) => {
        if (this.#stopping.signal.aborted) return 'The process of the store that started it was stopped.'
        return late.aborted ? `It was ended after ${Math.round(maxRunMs / 60_000)} minutes.` : error.message
      },
    )
    // A run that has recorded its outcome does not change.
    await failUnfinishedRun(pool, id, reason.trim().slice(0, MAX_REASON))
  }
}

/** The printed text and exit status: see docs/operate/verify.md. */
export interface CommandOutcome {
  status: number | null
  stdout: string
  stderr: string
}

/** A separate process takes no memory or time from requests. It ends with `signal`, or with this process. */
export type RunCommand = (args: readonly string[], options: { signal: AbortSignal }) => Promise<CommandOutcome>
