import { connect, createServer, type Server, type Socket } from 'node:net'
import { type Cleanup, onCleanup } from '../test/cleanup.ts'

/** A fixed address in front of a server that moves, like a virtual IP or a proxy in front of a database. */
export class VirtualAddress {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  readonly url: string
  #port: number
  #isCut = false

  private constructor(server: Server, target: string) {
    this.#server = server
    this.#port = Number(new URL(target).port)
    this.url = Object.assign(new URL(target), { port: String((server.address() as { port: number }).port) }).href
    server.on('connection', (client) => this.#forward(client))
  }

  static async open(cleanup: Cleanup, target: string): Promise<VirtualAddress> {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = new VirtualAddress(server, target)
    onCleanup(cleanup, () => address.#close())
    return address
  }

  /** Ends every connection. New ones go to `target`. */
  moveTo(target: string): void {
    this.#port = Number(new URL(target).port)
    for (const socket of this.#sockets) socket.destroy()
  }

  /** Ends every connection, and every new one until `mend`. */
  cut(): void {
    this.#isCut = true
    for (const socket of this.#sockets) socket.destroy()
  }

  mend(): void {
    this.#isCut = false
  }

  #forward(client: Socket): void {
    if (this.#isCut) {
      client.destroy()
      return
    }
    const server = connect(this.#port, '127.0.0.1')
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(from)
      from.on('error', () => to.destroy())
      from.on('close', () => {
        this.#sockets.delete(from)
        to.destroy()
      })
      from.pipe(to)
    }
  }

  #close(): void {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
  }
}
