import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const FOLDER = join(import.meta.dirname, '../docs/operate')

/** Pages whose commands have tests of their own. */
const ELSEWHERE = ['move-in.md']

/** The pages about running a store, one after the other. */
export const OPERATIONS = readdirSync(FOLDER)
  .filter((name) => !ELSEWHERE.includes(name))
  .map((name) => readFileSync(join(FOLDER, name), 'utf8'))
  .join('\n')

/** The statements for an administrator, as the document has them. */
export function readRoleStatements(): string[] {
  const [, block = ''] = /^## Roles$[\s\S]*?^```sql\n([\s\S]*?)^```$/m.exec(OPERATIONS) ?? []
  const statements = block.split(/;\n/).filter((statement) => statement !== '')
  assert.ok(statements.length > 5)
  return statements
}

/** The commands that follow the one line that ends with this text. */
export function readCommands(introduction: string): string {
  const [before, after, ...others] = OPERATIONS.split(`${introduction}\n\n\`\`\`sh\n`)
  assert.ok(before !== undefined && after !== undefined && others.length === 0, introduction)
  return after.slice(0, after.indexOf('```'))
}
