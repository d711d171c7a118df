// For `--import` in a process that this program starts: it ends with its parent, whatever it does, and removes its
// temporary folder. The parent keeps its standard input open and writes nothing to it.
import { rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { isMainThread } from 'node:worker_threads'

if (isMainThread) {
  process.stdin.on('error', () => {})
  process.stdin.on('close', () => {
    try {
      rmSync(tmpdir(), { recursive: true, force: true })
    } finally {
      process.kill(process.pid, 'SIGKILL')
    }
  })
  // The end of the command's own work ends the process.
  process.stdin.resume().unref()
}
