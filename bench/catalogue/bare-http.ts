// The floor of warm pages: bare node:http that answers every request with the given status, headers and body. It
// answers its parent with its port.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface BareAnswer {
  status: number
  headers: string[]
  body: string | null
}

process.on('message', async ({ status, headers, body }: BareAnswer) => {
  const bytes = body === null ? undefined : Buffer.from(body)
  const server = createServer((_request, response) => {
    response.writeHead(status, headers)
    response.end(bytes)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  process.send?.((server.address() as AddressInfo).port)
})
