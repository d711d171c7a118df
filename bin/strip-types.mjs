// Lets Node.js run the TypeScript of this package, also from node_modules, where it does not strip types by itself.
// Also for `--import`.
import { readFileSync } from 'node:fs'
import * as module from 'node:module'
import { fileURLToPath } from 'node:url'

const root = new URL('..', import.meta.url).href

// Keeps compiled code for the next start, in the package's own folder: only those who can write the code can write the
// cache.
module.enableCompileCache(fileURLToPath(new URL('../node_modules/.cache/storefront', import.meta.url)))
if (root.includes('/node_modules/')) {
  // Hides the warning that stripping types is experimental: the pinned Node.js has it.
  const { emitWarning } = process
  process.emitWarning = () => {}
  module.stripTypeScriptTypes('')
  process.emitWarning = emitWarning
  module.registerHooks({
    load(url, context, nextLoad) {
      if (!url.startsWith(root) || !url.endsWith('.ts')) return nextLoad(url, context)
      const source = module.stripTypeScriptTypes(readFileSync(new URL(url), 'utf8'))
      return { format: 'module', source, shortCircuit: true }
    },
  })
}
