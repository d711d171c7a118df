import packageJson from '../../package.json' with { type: 'json' }
import { examineStore } from '../app/doctor/examine-store.ts'
import { type Finding, problem } from '../app/doctor/finding.ts'
import { readEnvironment } from '../config.ts'
import { counted } from '../counted.ts'
import type { Terminal } from './command.ts'
import { escapeControls } from './format-table.ts'

const STATUS_WIDTH = 9
const NAME_WIDTH = 17

/** Exit status 1 when there is a problem. Ends the process, because a server may hang. */
export async function printDiagnosis({ out, exit }: Terminal, json: boolean): Promise<number> {
  const { config, problems, misspelt } = readEnvironment()
  const versions = { store: packageJson.version, node: process.versions.node }
  const refused = problems.map((line) => problem('settings', line, 'correct it: storefront config prints every setting'))
  const findings =
    refused.length > 0
      ? [...refused, ...misspelt.map((line) => problem('settings', line, 'correct the name'))]
      : await examineStore(config, { misspelt, versions })
  const worst = findings.some(({ status }) => status === 'problem')
    ? 'problem'
    : findings.some(({ status }) => status === 'warning')
      ? 'warning'
      : 'ok'
  if (json) out(JSON.stringify({ status: worst, checks: findings }, null, 2))
  else for (const line of [...findings.flatMap(linesOf), summaryOf(findings)]) out(line)
  return exit(worst === 'problem' ? 1 : 0)
}

function linesOf({ status, check, found, remedy }: Finding): string[] {
  const line = `${status.padEnd(STATUS_WIDTH)}${check.padEnd(NAME_WIDTH)}${escapeControls(found)}`
  return remedy === null ? [line] : [line, `${' '.repeat(STATUS_WIDTH + NAME_WIDTH)}→ ${escapeControls(remedy)}`]
}

function summaryOf(findings: readonly Finding[]): string {
  const count = (wanted: Finding['status']) => counted(findings.filter(({ status }) => status === wanted).length, wanted)
  return `${counted(findings.length, 'check')}: ${count('problem')}, ${count('warning')}; data is not compared: storefront verify does`
}
