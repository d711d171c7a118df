import type { Cleanup } from '../test/cleanup.ts'
import { eventually } from '../test/eventually.ts'
import { freePort } from '../test/free-port.ts'
import { type NatsServer, startNatsServer } from '../test/nats-server.ts'
import { Broker } from './broker.ts'
import { VirtualAddress } from './virtual-address.ts'

const SIZE = 3
// The advertised routes lead nowhere, so all routes are the configured ones, which a round can cut.
const NOWHERE = '127.0.0.1:1'

interface Member {
  name: string
  server: NatsServer
  /** The proxies between this server and the others, in both directions. */
  routes: VirtualAddress[]
}

/** Three NATS servers. Each can be killed, wiped, or cut off from the other two while its clients still reach it. */
export class NatsCluster {
  readonly #members: Member[]

  private constructor(members: Member[]) {
    this.#members = members
  }

  static async start(cleanup: Cleanup): Promise<NatsCluster> {
    const ports = await Promise.all(Array.from({ length: SIZE }, freePort))
    const routes = new Map<string, VirtualAddress>()
    for (const [from] of ports.entries()) {
      for (const [to, port] of ports.entries()) {
        if (from !== to) routes.set(`${from}${to}`, await VirtualAddress.open(cleanup, `nats-route://127.0.0.1:${port}`))
      }
    }
    const startMember = async (index: number): Promise<Member> => {
      const own = [...routes].filter(([pair]) => pair.startsWith(String(index))).map(([, route]) => route.url)
      const server = await startNatsServer(
        cleanup,
        `server_name: nats-${index}
cluster {
  name: faults, host: 127.0.0.1, port: ${ports[index]}, advertise: "${NOWHERE}", no_advertise: true
  routes: ${JSON.stringify(own)}
}`,
      )
      return {
        name: `nats-${index}`,
        server,
        routes: [...routes].filter(([pair]) => pair.includes(String(index))).map(([, route]) => route),
      }
    }
    return new NatsCluster(await Promise.all(ports.map((_, index) => startMember(index))))
  }

  openBroker(cleanup: Cleanup, without?: string): Promise<Broker> {
    const members = this.#members.filter(({ name }) => name !== without)
    return Broker.open(
      cleanup,
      members.map(({ server }) => server.url),
      SIZE,
    )
  }

  get names(): string[] {
    return this.#members.map(({ name }) => name)
  }

  async kill(name: string): Promise<void> {
    await this.#member(name).server.end('SIGKILL')
  }

  /** Deletes the server's data. The server must have been killed. */
  wipe(name: string): void {
    this.#member(name).server.wipe()
  }

  async restart(name: string): Promise<void> {
    await this.#member(name).server.start()
  }

  cutOff(name: string): void {
    for (const route of this.#member(name).routes) route.cut()
  }

  reconnect(name: string): void {
    for (const route of this.#member(name).routes) route.mend()
  }

  #member(name: string): Member {
    const member = this.#members.find((member) => member.name === name)
    if (member === undefined) throw new Error(`there is no server ${name}`)
    return member
  }
}

/** Waits until the stream has a leader and every server has every message. */
export async function untilWhole(broker: Broker): Promise<void> {
  await eventually(() => broker.isWhole().catch(() => false), { what: 'a whole cluster', timeoutMs: 180_000 })
}
