import { randomUUIDv7 } from 'node:crypto'
import { auditContextOfCommand } from '../activity/record-activity.ts'
import { countActiveKeys, isKeyName, KEY_NAME_LENGTH, listApiKeys, type NewKey } from '../auth/api-keys/api-keys.ts'
import { createApiKey } from '../auth/api-keys/create-api-key.ts'
import { revokeApiKey } from '../auth/api-keys/revoke-api-key.ts'
import { DEFAULT_OVERLAP_SECONDS, rotateApiKey } from '../auth/api-keys/rotate-api-key.ts'
import { AppError, OperatorError } from '../errors.ts'
import type { Scope } from '../http/scopes.ts'
import { type Contexts, UsageError } from './command.ts'
import { printRows } from './format-table.ts'

type Context = Contexts['database']

const DAY_MS = 86_400_000
const KEY_ID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i

export async function createKey(
  { pool, terminal }: Context,
  name: string,
  { scopes, expiresInDays }: { scopes: readonly Scope[]; expiresInDays: number | undefined },
): Promise<number> {
  if (!isKeyName(name)) throw new UsageError(`the name must be one line of at most ${KEY_NAME_LENGTH} characters, without blanks around it`)
  if (scopes.length === 0) throw new UsageError('name at least one scope: --scopes orders:read')
  const now = new Date()
  const expiresAt = expiresInDays === undefined ? null : new Date(now.getTime() + expiresInDays * DAY_MS)
  const key = await explained('', createApiKey(pool, { name, scopes, expiresAt }, { auditContext: auditContext('keys create'), now }))
  terminal.out(`made the key ${key.id}`)
  printKey(terminal, key)
  return 0
}

export async function listKeys({ pool, terminal }: Context, limit: number, json: boolean): Promise<number> {
  const columns = ['id', 'name', 'state', 'scopes', 'created_by', 'created_at', 'expires_at', 'last_used_at', 'revoked_reason']
  const rows: (string | string[] | null)[][] = []
  for (const key of await listApiKeys(pool, { limit }, new Date())) {
    const times = [key.created_at, key.expires_at, key.last_used_at].map((at) => at?.toISOString() ?? null)
    rows.push([key.id, key.name, key.state, json ? key.scopes : key.scopes.join(','), key.created_by, ...times, key.revoked_reason])
  }
  return printRows(terminal, { columns, rows }, json)
}

/** Replaces a key's secret, and prints the new one once. */
export async function rotateKey({ pool, terminal }: Context, id: string, overlapHours: number | undefined): Promise<number> {
  assertKeyId(id)
  const overlapSeconds = overlapHours === undefined ? DEFAULT_OVERLAP_SECONDS : overlapHours * 3_600
  const key = await explained(id, rotateApiKey(pool, id, overlapSeconds, { auditContext: auditContext('keys rotate'), now: new Date() }))
  printKey(terminal, key)
  terminal.out(
    key.previous_expires_at === null
      ? 'The previous secret ends within a second.'
      : `The previous secret is valid until ${key.previous_expires_at.toISOString()}.`,
  )
  return 0
}

export async function revokeKey({ pool, terminal }: Context, id: string): Promise<number> {
  assertKeyId(id)
  await explained(id, revokeApiKey(pool, id, { auditContext: auditContext('keys revoke'), now: new Date() }))
  terminal.out(`revoked the key ${id}: a running store refuses it within a second`)
  return 0
}

/** Reports keys after a restore, because the backup lacks later changes of keys. */
export async function reportRestoredKeys({ pool, terminal }: Pick<Context, 'pool' | 'terminal'>): Promise<void> {
  const active = await countActiveKeys(pool, new Date())
  if (active === 0) return
  terminal.out(
    `API keys are as in the backup (${active} active): revoke again those that were revoked since; storefront keys list shows them`,
  )
}

function printKey(terminal: Context['terminal'], { key }: NewKey): void {
  terminal.out(`key: ${key}`)
  terminal.out('It is not shown again.')
}

function assertKeyId(id: string): void {
  if (!KEY_ID.test(id)) throw new UsageError(`${JSON.stringify(id)} is no id of a key; storefront keys list shows them`)
}

/** The audit context of a command's run. All activities of the run share its id. */
function auditContext(action: string) {
  return { ...auditContextOfCommand(action), requestId: randomUUIDv7() }
}

/** Runs `work`, and turns the API's refusals into lines for an operator. */
async function explained<T>(id: string, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    throw new OperatorError(error.code === 'not_found' ? `there is no key ${id}; storefront keys list shows them` : error.message, {
      cause: error,
    })
  }
}
