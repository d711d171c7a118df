import { type Static, Type } from 'typebox'
import { auditContextOf } from '../activity/record-activity.ts'
import type { Pool } from '../db/pool.ts'
import { notFound } from '../errors.ts'
import { defineList, defineRoute, sendPolled } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { PageOf } from '../http/pagination.ts'
import type { AuditRunner } from './audit-runner.ts'
import { AUDIT_KINDS, type AuditRun, findRun, listRuns } from './audit-runs.ts'

const EXAMPLE_AUDIT_RUN = {
  id: '01997a70-5d10-7c20-8a31-3b9e6f1d2c47',
  kind: 'verify',
  command: 'storefront verify',
  started_by: '01997a5e-0c41-7b02-8d1e-5f0f6a3c9b11',
  started_at: '2026-03-04T18:05:00.000Z',
  status: 'running',
  progress: 'read 20,000 orders',
  finished_at: null,
  exit_status: null,
  result: null,
  output: null,
}

const Kind = Type.Enum([...AUDIT_KINDS], {
  title: 'AuditKind',
  description:
    '`verify` compares orders, catalogue, topic, mails and lake, and changes nothing. `replay` publishes events that the topic lacks.',
})
const NullableTime = Type.Union([Type.String({ format: 'date-time' }), Type.Null()])
const NullableText = (description: string) => Type.Union([Type.String(), Type.Null()], { description })

export const AuditRunSchema = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    kind: Kind,
    command: Type.String({ description: 'The command that runs.' }),
    started_by: Type.Union([Type.String({ format: 'uuid' }), Type.Null()], {
      description: 'The operator who started the run. Null if it was started from the command line.',
    }),
    started_at: Type.String({ format: 'date-time' }),
    status: Type.Enum(['running', 'passed', 'faults', 'undecided', 'failed'], {
      description:
        '`faults`: it has found something wrong, or could not repair everything. `undecided`: events are in flight longer than they should be. ' +
        '`failed`: it ended without a result, or its process has died.',
    }),
    progress: NullableText('The last progress message of the command.'),
    finished_at: NullableTime,
    exit_status: Type.Union([Type.Integer(), Type.Null()], {
      description: 'The exit status of the command. Null if its process was killed.',
    }),
    result: Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()], {
      description: 'The report of the command, as `storefront verify --json` prints it, with at most 20 examples of each finding.',
    }),
    output: NullableText('The first 20,000 characters that the command printed, or why it failed.'),
  },
  { title: 'AuditRun', examples: [EXAMPLE_AUDIT_RUN] },
)
const NewAudit = Type.Object({ kind: Kind }, { title: 'NewAudit', additionalProperties: false, examples: [{ kind: 'verify' }] })
const Filters = Type.Object({ kind: Type.Optional(Kind) })
const Params = Type.Object({ id: Type.String({ format: 'uuid' }) })
const Position = Type.Tuple([
  Type.String({ maxLength: 40, pattern: String.raw`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[\d.+:-]*$` }),
  Type.String({ format: 'uuid' }),
])

export interface AuditRoutesOptions {
  pool: Pool
  audits: AuditRunner
  baseUrl: string
}

export function auditRoutes(server: HttpServer, { pool, audits, baseUrl }: AuditRoutesOptions): void {
  defineList(
    server,
    'GET /admin/audits',
    {
      access: 'pipeline:read',
      operationId: 'listAudits',
      summary: 'Runs of verify and replay, newest first, in pages',
      description: 'Runs that operators started here or on the command line, such as a nightly job. They are kept for 90 days.',
      filters: Filters,
      page: PageOf(AuditRunSchema),
      answer: 'A page of the runs.',
      position: Position,
    },
    async (request, { limit, after, page }) => {
      const { kind } = request.query
      const before = after && { startedAt: after[0], id: after[1] }
      const rows = await listRuns(pool, { kind, before, limit: limit + 1 })
      return page(rows, presentRun, ({ position, id }) => [position, id])
    },
  )

  defineRoute(
    server,
    'GET /admin/audits/:id',
    {
      access: 'pipeline:read',
      operationId: 'getAudit',
      summary: 'One run, with its progress or its result',
      description: 'Poll it with `If-None-Match` while its status is `running`.',
      params: Params,
      answers: { 200: [AuditRunSchema, 'The run.'] },
    },
    async (request, reply) => {
      const run = await findRun(pool, request.params.id)
      if (run === null) throw notFound('run')
      return sendPolled(request, reply, presentRun(run))
    },
  )

  defineRoute(
    server,
    'POST /admin/audits',
    {
      access: 'pipeline:repair',
      stepUp: true,
      operationId: 'startAudit',
      summary: 'Starts verify or replay',
      description:
        'The command runs in a separate process for at most 30 minutes. Only one command of each kind runs at a time in the whole store. `Location` leads to the run.',
      body: NewAudit,
      answers: { 202: [AuditRunSchema, 'It has been started.'] },
      refuses: ['request_in_progress'],
    },
    async (request, reply) => {
      const run = await audits.run(request.body.kind, auditContextOf(request))
      return reply
        .code(202)
        .headers({ location: `${baseUrl}/admin/audits/${run.id}` })
        .send(presentRun(run))
    },
  )
}

export function presentRun(run: AuditRun): Static<typeof AuditRunSchema> {
  const { id, kind, command, started_by, started_at, status, progress, finished_at, exit_status, result, output } = run
  return {
    ...{ id, kind, command, started_by, status, progress, exit_status, result, output },
    started_at: started_at.toISOString(),
    finished_at: finished_at?.toISOString() ?? null,
  }
}
