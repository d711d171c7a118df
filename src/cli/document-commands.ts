import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import pino from 'pino'
import { readConfig } from '../config.ts'
import type { Language } from '../language.ts'
import { type Terminal, UsageError } from './command.ts'

export async function printOpenApi(terminal: Terminal): Promise<number> {
  const { createApiForDocument } = await import('../app/create-api.ts')
  const { generateSigningKeys } = await import('../auth/tokens/signing-keys.ts')
  const { createPool } = await import('../db/pool.ts')
  const config = readConfig({})
  const pool = createPool({ url: 'postgres://unused', size: 1, applicationName: 'storefront', onError: () => {} })
  const server = await createApiForDocument(config, pool, await generateSigningKeys(), pino({ level: 'silent' }))
  await server.ready()
  terminal.out(JSON.stringify(server.swagger(), null, 2))
  await server.close()
  await pool.end()
  return 0
}

/** Prints the AsyncAPI document, or writes it into a folder with a JSON Schema for each event. */
export async function printAsyncApi(terminal: Terminal, folder: string | null): Promise<number> {
  const { makeFolder } = await import('../db/embedded/data-folder.ts')
  const { eventDocument, eventFiles } = await import('./event-document.ts')
  if (folder === null) {
    terminal.out(JSON.stringify(eventDocument(), null, 2))
    return 0
  }
  for (const [name, document] of Object.entries(eventFiles())) {
    const file = join(folder, name)
    makeFolder(dirname(file), 0o777)
    await writeFile(file, `${JSON.stringify(document, null, 2)}\n`)
    terminal.out(file)
  }
  return 0
}

/** Writes the built-in templates. Throws UsageError instead of overwriting a file. */
export async function writeMailTemplates(terminal: Terminal, folder: string, languages: readonly Language[]): Promise<number> {
  const { makeFolder } = await import('../db/embedded/data-folder.ts')
  const { builtInFiles } = await import('../mail/templates.ts')
  const files = languages.flatMap(builtInFiles).map(([path, template]) => ({ file: join(folder, path), template }))
  const existing = files.find(({ file }) => existsSync(file))
  if (existing !== undefined) throw new UsageError(`${existing.file} exists; give another folder`)
  for (const { file, template } of files) {
    makeFolder(dirname(file), 0o777)
    await writeFile(file, template, { flag: 'wx' })
  }
  terminal.out(`wrote ${files.length} mail templates; keep those that you change, the others come from the store`)
  return 0
}
