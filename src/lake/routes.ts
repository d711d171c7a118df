import { Type } from 'typebox'
import { auditContextOf, recordActivity } from '../activity/record-activity.ts'
import type { Pool } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import { actorOf } from '../http/caller.ts'
import { defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { LAKE_TABLES } from './lake-tables.ts'
import { type LakeQueries, MAX_QUERY_CHARACTERS, MAX_QUERY_ROWS } from './run-query.ts'
import { withoutValues } from './without-values.ts'

const DEFAULT_ROWS = 1_000
const EXAMPLE_QUERY = { sql: 'select status, count(*) as orders from orders group by status', limit: DEFAULT_ROWS }

const Query = Type.Object(
  {
    sql: Type.String({
      minLength: 1,
      maxLength: MAX_QUERY_CHARACTERS,
      description: "One SELECT of DuckDB's SQL over `order_events` and `orders`.",
    }),
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: MAX_QUERY_ROWS,
        default: DEFAULT_ROWS,
        description: 'The maximum number of rows in the answer.',
      }),
    ),
  },
  { additionalProperties: false, title: 'LakeQuery', examples: [EXAMPLE_QUERY] },
)

const Column = Type.Object(
  { name: Type.String(), type: Type.String({ description: "DuckDB's name of the type." }) },
  { title: 'LakeColumn' },
)

const Result = Type.Object(
  {
    columns: Type.Array(Column),
    rows: Type.Array(Type.Array(Type.Union([Type.Null(), Type.Boolean(), Type.Number(), Type.String()])), {
      description:
        'Each row has a value for each column. Integers above 32 bits and decimals are exact text. Times are RFC 3339 in UTC. Lists and structs are JSON text. NaN and infinity are written as their names.',
    }),
    is_truncated: Type.Boolean({ description: 'Whether rows are missing because of `limit` or because the answer has reached 8 MiB.' }),
    elapsed_ms: Type.Integer({ description: 'Includes the start of the process that ran the query.' }),
  },
  {
    title: 'LakeResult',
    examples: [
      {
        columns: [
          { name: 'status', type: 'VARCHAR' },
          { name: 'orders', type: 'BIGINT' },
        ],
        rows: [
          ['pending', '3'],
          ['shipped', '41'],
        ],
        is_truncated: false,
        elapsed_ms: 420,
      },
    ],
  },
)

const Tables = Type.Object(
  {
    data: Type.Array(Type.Object({ name: Type.String(), description: Type.String(), columns: Type.Array(Column) }, { title: 'LakeTable' })),
  },
  { title: 'LakeTables', examples: [{ data: [{ ...LAKE_TABLES[1], columns: LAKE_TABLES[1]?.columns.slice(0, 3) }] }] },
)

export function lakeRoutes(server: HttpServer, { pool, queries }: { pool: Pool; queries: LakeQueries }): void {
  defineRoute(
    server,
    'GET /admin/lake/tables',
    {
      access: 'lake:query',
      operationId: 'listLakeTables',
      summary: 'The tables and columns that a query of the lake can read',
      description: 'What each column means is in docs/data/lake.md.',
      answers: { 200: [Tables, 'The tables with their columns.'] },
    },
    async () => ({ data: LAKE_TABLES as never }),
  )

  defineRoute(
    server,
    'POST /admin/lake/queries',
    {
      access: 'lake:query',
      bodyLimit: 8 * MAX_QUERY_CHARACTERS,
      operationId: 'queryLake',
      summary: 'Runs SQL over the lake',
      description:
        "Runs one SELECT in DuckDB's SQL over the views `order_events` and `orders`, in a separate process that can only read the lake. It has " +
        '10 seconds, bounded memory and bounded disk space. An operator can run one query at a time. Closing the connection ends the query.',
      body: Query,
      answers: { 200: [Result, 'The rows.'] },
      refuses: ['query_refused', 'query_timeout'],
    },
    async (request, reply) => {
      const gone = new AbortController()
      const onClose = () => gone.abort()
      reply.raw.once('close', onClose)
      const { sql: text, limit = DEFAULT_ROWS } = request.body
      const record = (after: object) =>
        recordActivity(pool, auditContextOf(request), { subjectType: 'lake', subjectId: null, before: null, after })
      let isStarted = false
      // The query is recorded before it runs: one without an answer may have been an attempt to read personal data.
      const onStart = async () => {
        await record(recordOf(text, limit))
        isStarted = true
      }
      try {
        const query = { operatorId: actorOf(request).id, text, limit, signal: gone.signal, onStart }
        const answer = await queries.run(query).catch(async (error: unknown) => {
          if (isStarted) await record({ outcome: gone.signal.aborted ? 'cancelled' : error instanceof AppError ? error.code : 'internal' })
          throw error
        })
        // The answer already is JSON, and this process does not parse it.
        return reply
          .headers({ 'content-type': 'application/json; charset=utf-8' })
          .serializer((payload: unknown) => payload as string)
          .send(answer as never)
      } finally {
        reply.raw.off('close', onClose)
      }
    },
  )
}

const MAX_RECORDED_CHARACTERS = 4_000

function recordOf(text: string, limit: number): object {
  const shown = withoutValues(text)
  const cut = shown.length > MAX_RECORDED_CHARACTERS ? { characters: text.length } : {}
  return { sql: shown.slice(0, MAX_RECORDED_CHARACTERS), limit, ...cut }
}
