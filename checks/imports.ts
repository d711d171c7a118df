import { readdirSync, readFileSync } from 'node:fs'
import { join, normalize } from 'node:path'
import { parseSync } from 'oxc-parser'

/** One import of a file of this repository. Paths are relative to its root, with `/`. */
export interface Import {
  from: string
  to: string
  /** `import type`, or every name imported as a type: it leaves no trace at run time. */
  isTypeOnly: boolean
}

/** What source files import at run time from packages, and from each other types included. */
export interface Imports {
  imports: Import[]
  packages: { from: string; name: string }[]
}

/** What a source file imports and exports again. `path` is the file's, relative to the root. Throws when it cannot be parsed. */
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

/** What the files below a folder import, tests left out. */
export function readTree(root: string, folder = 'src'): Imports {
  const files = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(ts|mjs)$/.test(name) && !name.endsWith('.test.ts'))
    .map((name) => readImports(`${folder}/${name.replaceAll('\\', '/')}`, readFileSync(join(root, folder, name), 'utf8')))
  return { imports: files.flatMap(({ imports }) => imports), packages: files.flatMap(({ packages }) => packages) }
}
