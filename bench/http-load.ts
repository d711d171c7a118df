// Runs as a separate process: sends GET requests over keep-alive connections for some seconds and prints the number of answers.
// Plain sockets: a full HTTP client would be slower than the servers it measures.
import { connect } from 'node:net'

/** The request. Every `#` of the path becomes a number that is used once. */
export interface Load {
  port: number
  path: string
  headers: Record<string, string>
  connections: number
  seconds: number
  /** The status that every answer must have. */
  status: number
}

const HEAD_END = Buffer.from('\r\n\r\n')

async function run({ port, path, headers, connections, seconds, status }: Load): Promise<number> {
  const lines = Object.entries({ host: `127.0.0.1:${port}`, ...headers }).map(([name, value]) => `${name}: ${value}\r\n`)
  const isVaried = path.includes('#')
  const write = (number: number) => `GET ${isVaried ? path.replaceAll('#', String(number)) : path} HTTP/1.1\r\n${lines.join('')}\r\n`
  const always = write(0)
  let sent = 0
  let answered = 0
  const endsAt = performance.now() + seconds * 1_000
  const one = () =>
    new Promise<void>((resolve, reject) => {
      const socket = connect(port, '127.0.0.1')
      socket.setNoDelay(true)
      let pending: Buffer = Buffer.alloc(0)
      const ask = () => socket.write(isVaried ? write(++sent) : always)
      socket
        .on('connect', ask)
        .on('error', reject)
        .on('close', () => resolve())
      socket.on('data', (chunk: Buffer) => {
        pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk])
        const headEnd = pending.indexOf(HEAD_END)
        if (headEnd < 0) return
        const head = pending.toString('latin1', 0, headEnd)
        const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? '0'
        if (pending.length < headEnd + 4 + Number(length)) return
        if (!head.startsWith(`HTTP/1.1 ${status} `)) {
          reject(new Error(`an answer of ${head.slice(0, 30)}`))
          return
        }
        pending = Buffer.alloc(0)
        answered++
        if (performance.now() < endsAt) ask()
        else socket.destroy()
      })
    })
  const beganAt = performance.now()
  await Promise.all(Array.from({ length: connections }, one))
  return answered / ((performance.now() - beganAt) / 1_000)
}

process.stdout.write(`${await run(JSON.parse(process.argv[2] ?? '') as Load)}\n`)
