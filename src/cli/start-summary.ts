import { existsSync } from 'node:fs'
import { dirname, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Config } from '../config.ts'
import { dataFolder } from '../db/embedded/data-folder.ts'

const CHECKOUT_COMMAND = fileURLToPath(new URL('../../storefront', import.meta.url))
const EXAMPLE_SHOP = new URL('../../examples/shop/serve.ts', import.meta.url)

/** The summary of a start, without secrets. */
export function startSummary(config: Config): string {
  const { baseUrl, roles, smtpUrl, lakeBucket, databaseAddresses } = config
  const command = `${databaseAddresses === null ? dataDirPrefix(config) : ''}${commandName()}`
  const folder = dataFolder(config.dataDir)
  const hasApi = roles.includes('api')
  const lake = lakeBucket === null ? `files in ${shortPath(folder.lake)}` : `s3://${[lakeBucket.bucket, lakeBucket.prefix].join('/')}`
  const pages: [string, string][] = hasApi
    ? [
        ['API reference', `${baseUrl}/docs`],
        ['Console', `${baseUrl}/console, for operators`],
      ]
    : [['Roles', roles.join(', ')]]
  const rows: [string, string][] = [
    ...pages,
    ['Database', databaseAddresses === null ? `embedded, in ${shortPath(folder.path)}` : 'that of DATABASE_URL'],
    ['Mails', smtpUrl === null ? `files in ${shortPath(folder.mail)}` : `sent by ${new URL(smtpUrl).host}`],
    ['Lake', lake],
    ...(databaseAddresses === null ? [] : ([['Commands', 'need the settings of this process']] as [string, string][])),
    ['New operator', `${command} admin create EMAIL`],
    ['Demo orders', `${command} demo`],
    ...(existsSync(EXAMPLE_SHOP) ? ([['Example shop', 'npm run shop, instead of this command']] as [string, string][]) : []),
    ['All commands', `${command} help`],
  ]
  const lines = rows.map(([name, text]) => `  ${name.padEnd(15)}${text}`)
  return ['', hasApi ? `Storefront answers at ${baseUrl}` : 'Storefront runs', '', ...lines, '', 'Ctrl-C stops it.', '', ''].join('\n')
}

/** The variables that commands in another terminal in this folder need. Empty if they need none. */
function dataDirPrefix({ dataDir }: Config): string {
  const path = shortPath(dataFolder(dataDir).path)
  return path === 'data' ? '' : `DATA_DIR=${/^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`} `
}

/** The command for a checkout, a path or an installed package. */
function commandName(): string {
  if (!existsSync(CHECKOUT_COMMAND)) return 'npx --no -- storefront'
  return process.cwd() === dirname(CHECKOUT_COMMAND) ? './storefront' : CHECKOUT_COMMAND
}

function shortPath(path: string): string {
  const short = relative(process.cwd(), path)
  return short === '' || short.startsWith('..') ? path : short
}
