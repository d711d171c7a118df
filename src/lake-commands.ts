import type { Command, Terminal } from './commands.ts'
import type { Config } from './config.ts'
import { dataFolder } from './db/data-folder.ts'
import { formatTable, queryLake } from './pipeline/lake/lake-query.ts'

/** Runs SQL over the lake and prints a table. Needs no server: the lake is files. */
export async function lakeQueryCommand(config: Config, terminal: Terminal, sql: string): Command {
  terminal.out(formatTable(await queryLake(dataFolder(config.dataDir).lake, sql)))
  return 0
}
