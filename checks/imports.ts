import { readdirSync, readFileSync } from 'node:fs'
import { join, normalize } from 'node:path'
import { parseSync } from 'oxc-parser'

/** One import of a repository file. Paths are relative to the root, with `/`. */
export interface Import {
  from: string
  to: string
  /** Whether it is `import type`, or imports every name as a type, so nothing of it remains at run time. */
  isTypeOnly: boolean
}

/** The imports of source files: of packages at run time, and of each other including types. */
export interface Imports {
  imports: Import[]
  packages: { from: string; name: string }[]
}

/** The imports and re-exports of a source file. `path` is relative to the root. Throws if the file cannot be parsed. */
export function readImports(path: string, source: string): Imports {
  const { module, errors } = parseSync(path, source)
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`)
  const requests = [
    ...module.staticImports.map(({ moduleRequest, entries }) => ({
      specifier: moduleRequest.value,
      isTypeOnly: entries.length > 0 && entries.every(({ isType }) => isType),
    })),
    ...module.staticExports.flatMap(({ entries }) =>
      entries.flatMap(({ moduleRequest, isType }) => (moduleRequest ? [{ specifier: moduleRequest.value, isTypeOnly: isType }] : [])),
    ),
    ...module.dynamicImports.flatMap(({ moduleRequest: { start, end } }) => {
      const literal = /^(['"])(.+)\1$/.exec(source.slice(start, end))?.[2]
      return literal === undefined ? [] : [{ specifier: literal, isTypeOnly: false }]
    }),
  ]
  // JSON is data and belongs to no room.
  const own = requests.filter(({ specifier }) => specifier.startsWith('.') && !specifier.endsWith('.json'))
  return {
    imports: own.map(({ specifier, isTypeOnly }) => ({ from: path, to: normalize(join(path, '..', specifier)), isTypeOnly })),
    packages: requests
      .filter(({ specifier, isTypeOnly }) => !specifier.startsWith('.') && !isTypeOnly)
      .map(({ specifier }) => ({ from: path, name: specifier })),
  }
}

/** The imports of the files below a folder, without tests. */
export function readTree(root: string, folder = 'src'): Imports {
  const files = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(ts|mjs)$/.test(name) && !name.endsWith('.test.ts'))
    .map((name) => readImports(`${folder}/${name.replaceAll('\\', '/')}`, readFileSync(join(root, folder, name), 'utf8')))
  return { imports: files.flatMap(({ imports }) => imports), packages: files.flatMap(({ packages }) => packages) }
}
