import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'

/**
 * Neither the shell's history nor the process list contains the password. Empty when none was given, null after Ctrl-C.
 */
export async function readPassword(prompt: string, input: NodeJS.ReadStream = process.stdin): Promise<string | null> {
  if (!input.isTTY) return readFirstLine(input)
  process.stderr.write(prompt)
  // readline echoes to this output, which discards it.
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const terminal = createInterface({ input, output: silent, terminal: true })
  const cancelled = Promise.withResolvers<null>()
  terminal.once('SIGINT', () => cancelled.resolve(null))
  try {
    return await Promise.race([terminal.question(''), cancelled.promise])
  } finally {
    terminal.close()
    process.stderr.write('\n')
  }
}

async function readFirstLine(input: NodeJS.ReadStream): Promise<string> {
  let text = ''
  for await (const chunk of input.setEncoding('utf8')) {
    text += chunk
    if (text.includes('\n')) break
  }
  return text.split(/\r?\n/, 1)[0] ?? ''
}
