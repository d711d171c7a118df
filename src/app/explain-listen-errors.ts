import { OperatorError } from '../errors.ts'
import type { Service } from './service.ts'

const PROBLEMS: Record<string, (port: string, host: string) => string> = {
  EACCES: (port) => `this user may not listen on that port; set ${port} to one above 1023`,
  EADDRINUSE: (port) => `another process has that port; set ${port} to another one`,
  EADDRNOTAVAIL: (_, host) => `this machine has no such address; set ${host} to one of its own`,
  ENOTSUP: () => 'this system does not let processes share a port; set WEB_CONCURRENCY to 2, or to 1 for a process of the API alone',
  ENOTFOUND: (_, host) => `the name has no address; set ${host} to an address of this machine`,
}

export function explainListenErrors(service: Service, { host, port }: { host: string; port: number }, prefix = ''): Service {
  return {
    async start() {
      try {
        await service.start()
      } catch (error) {
        const { code = '', address = host } = error as NodeJS.ErrnoException & { address?: string }
        const describe = PROBLEMS[code]
        if (describe === undefined) throw error
        throw new OperatorError(`cannot listen on ${address}, port ${port}: ${describe(`${prefix}PORT`, `${prefix}HOST`)}`, {
          cause: error,
        })
      }
    },
    stop: () => service.stop(),
  }
}
