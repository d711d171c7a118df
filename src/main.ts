import packageJson from '../package.json' with { type: 'json' }
import type { Terminal } from './cli/command.ts'
import { readCommandLine } from './cli/command-line.ts'
import { explainError } from './cli/explain-error.ts'
import { runCommand } from './cli/run-command.ts'

const terminal: Terminal = {
  out: (line) => console.log(line),
  err: (line) => console.error(line),
  exit: (status) => process.exit(status),
}

// A reader such as `head` closes the pipe once it has seen enough. The command still completes its work.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
  })
}

// Before Node.js ends by itself, it removes signal handlers, and a repeated signal would then change the exit status.
process.once('beforeExit', () => process.exit())

try {
  const request = readCommandLine(process.argv.slice(2), packageJson.version)
  if (request.kind === 'print') terminal.out(request.text)
  else process.exitCode = await runCommand(request.command, terminal, request.values, request.args)
} catch (error) {
  const explained = explainError(error)
  if (explained === null) console.error(error)
  else terminal.err(`storefront: ${explained.message}`)
  process.exitCode = explained?.exitStatus ?? 1
}
