// Runs as a separate process: bare node:http that answers every request with the given status, headers and body.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const { status, headers, body } = JSON.parse(process.argv[2] ?? '') as { status: number; headers: string[]; body: string | null }
const bytes = body === null ? undefined : Buffer.from(body)
const server = createServer((_request, response) => {
  response.writeHead(status, headers)
  response.end(bytes)
})
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`))
