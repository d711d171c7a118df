#!/usr/bin/env node
// The command `storefront`: runs src/main.ts on the pinned Node.js, also from node_modules, where Node.js does not strip types.
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import * as module from 'node:module'
import { fileURLToPath } from 'node:url'

const MINIMUM_MAJOR = 26
const GROUP_SIGNAL_MS = 500
const main = new URL('../src/main.ts', import.meta.url)
const require = module.createRequire(import.meta.url)

/** Ends the process with one line when a file of a package that npm installs is missing. */
function assertInstalled(file, reason, command) {
  try {
    return require.resolve(file)
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error
    console.error(`storefront: ${reason}; run ${command} in the folder of package.json`)
    process.exit(1)
  }
}

assertInstalled('pino', 'its packages are not installed', 'npm ci')
if (Number(process.versions.node.split('.')[0]) < MINIMUM_MAJOR) {
  const scriptsOff = `this is Node.js ${process.version}, and the one of version ${MINIMUM_MAJOR} is not there, because npm ran no install scripts`
  const node = assertInstalled('node/bin/node', scriptsOff, 'npm ci --ignore-scripts=false')
  const child = spawn(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], { stdio: ['inherit', 'inherit', 'inherit', 'ipc'] })
  // A terminal and systemd signal the whole group, `kill` this process only: a signal that the child reports is not forwarded.
  const received = new Map()
  child.on('message', (signal) => received.set(signal, performance.now()))
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) {
    process.on(signal, () => {
      const sentAt = performance.now()
      const forward = () => {
        if (!(received.get(signal) >= sentAt - GROUP_SIGNAL_MS)) child.kill(signal)
      }
      // On a busy machine the timer fires before the child's waiting message is read: that is read first.
      setTimeout(() => setImmediate(forward), GROUP_SIGNAL_MS)
    })
  }
  child.on('exit', (code, signal) => {
    process.exitCode = code ?? 128 + (signal === 'SIGKILL' ? 9 : 15)
  })
} else {
  // Keeps compiled code for the next start, in the package's own folder: only those who can write the code can write the cache.
  module.enableCompileCache(fileURLToPath(new URL('../node_modules/.cache/storefront', import.meta.url)))
  if (main.pathname.includes('/node_modules/')) {
    const root = new URL('..', import.meta.url).href
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
  await import(main.href)
}
