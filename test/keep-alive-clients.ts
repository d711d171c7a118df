import { Agent, get } from 'node:http'

/** How many there are. */
export const CLIENTS = 16

/** Clients that keep their connections and send one request after another until the store accepts no new connection. */
export function startClients(port: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS })
  const count = { answered: 0, cut: 0 }
  const send = () =>
    new Promise<boolean>((resolve) => {
      const request = get({ agent, port, host: '127.0.0.1', path: `/products?limit=1&min_price=${count.answered}` }, (response) => {
        response.on('error', () => {})
        response.resume().on('close', () => {
          count[response.complete ? 'answered' : 'cut'] += 1
          resolve(true)
        })
      })
      request.on('error', ({ code }: NodeJS.ErrnoException) => {
        if (code !== 'ECONNREFUSED') count.cut += 1
        resolve(code !== 'ECONNREFUSED')
      })
    })
  const done = Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      for (let isOpen = true; isOpen; ) isOpen = await send()
    }),
  ).finally(() => agent.destroy())
  return { count, done }
}
