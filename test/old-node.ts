import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** The path of a Node.js older than Storefront needs, null when the machine has none. */
export function findOldNode(): string | null {
  const candidates = ['/usr/bin', ...(process.env.PATH ?? '').split(delimiter)].map((directory) => join(directory, 'node'))
  for (const node of candidates.filter((candidate) => existsSync(candidate))) {
    const version = execFileSync(node, ['--version'], { encoding: 'utf8' })
    const major = Number(/^v(\d+)/.exec(version)?.[1])
    if (major >= 20 && major < 26) return node
  }
  return null
}
