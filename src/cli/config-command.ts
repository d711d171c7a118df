import type { ReadSetting } from '../config/settings.ts'
import { readEnvironment } from '../config.ts'
import type { Terminal } from './command.ts'
import { formatTable } from './format-table.ts'

const EXIT_REFUSED = 2

/** Secrets are masked. Starts nothing. */
export function printConfig({ out, err }: Terminal, json: boolean): number {
  const { settings, problems, misspelt } = readEnvironment()
  if (json) {
    const rows = settings.map(({ name, value, origin, from, documented, mustBe }) => {
      return { name, value, origin, from, default: documented || null, must_be: mustBe }
    })
    out(JSON.stringify({ settings: rows, problems, warnings: misspelt }, null, 2))
  } else {
    const rows = settings.map((setting) => [setting.name, setting.value ?? `(${describeAbsence(setting)})`, describeOrigin(setting)])
    out(formatTable({ columns: ['setting', 'value', 'from'], rows }))
    for (const line of [...problems, ...misspelt]) err(`storefront: ${line}`)
  }
  return problems.length === 0 ? 0 : EXIT_REFUSED
}

function describeAbsence({ origin, documented }: ReadSetting): string {
  return origin === 'refused' ? 'refused' : origin === 'environment' ? 'off' : documented || 'none'
}

function describeOrigin({ origin, from }: ReadSetting): string {
  return origin === 'derived' ? `derived from ${from}` : origin === 'refused' ? 'environment' : origin
}
