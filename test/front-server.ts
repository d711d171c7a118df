import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { PROGRAM_PATH } from './programs.ts'

/** What stands in front of the store: its address, without a slash at the end. */
export interface FrontServer {
  url: string
}

interface Program {
  program: string
  /** Written into a new folder, by name. */
  files: (folder: string, port: number) => Record<string, string>
  args: (folder: string, port: number) => string[]
  port?: number | undefined
}

/**
 * Starts a real program in front of the store with a folder of its own, and returns when the store answers through
 * it.
 */
export async function startFrontServer(t: Cleanup, { program, files, args, port }: Program): Promise<FrontServer> {
  const folder = mkdtempSync(join(tmpdir(), `storefront-${program}-`))
  port ??= await freePort()
  for (const [name, text] of Object.entries(files(folder, port))) writeFileSync(join(folder, name), text)
  const child = spawn(program, args(folder, port), { env: { ...process.env, PATH: PROGRAM_PATH }, stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr.on('data', (text) => {
    said += text
  })
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()).once('error', () => resolve()))
  onCleanup(t, async () => {
    child.kill('SIGTERM')
    await exited
    rmSync(folder, { recursive: true, force: true })
  })
  const url = `http://127.0.0.1:${port}`
  await eventually(
    async () => {
      if (child.exitCode !== null) throw new Error(`${program} ended: ${said}`)
      return (await fetch(`${url}/livez`).catch(() => null))?.ok
    },
    { what: `${program} answers` },
  )
  return { url }
}

/** nginx with its defaults: nothing is set but the addresses and where it may write. */
export function startNginx(t: Cleanup, backendPorts: readonly number[]): Promise<FrontServer> {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  return startFrontServer(t, {
    program: 'nginx',
    files: (folder, port) => ({
      // Its workers would be another user, who may not read a temporary folder.
      'nginx.conf': `daemon off;
${process.getuid?.() === 0 ? 'user root;' : ''}
pid ${folder}/nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
${temporary.map((name) => `  ${name}_temp_path ${folder}/${name};`).join('\n')}
  upstream store {
${backendPorts.map((backend) => `    server 127.0.0.1:${backend};`).join('\n')}
  }
  server {
    listen 127.0.0.1:${port};
    location / { proxy_pass http://store; }
  }
}
`,
    }),
    args: (folder) => ['-c', join(folder, 'nginx.conf'), '-p', folder, '-e', 'stderr'],
  })
}

/** HAProxy with Debian's defaults. It asks /readyz, as docs/operate/deploy.md says. */
export function startHaproxy(t: Cleanup, backendPorts: readonly number[]): Promise<FrontServer> {
  return startFrontServer(t, {
    program: 'haproxy',
    files: (_folder, port) => ({
      'haproxy.cfg': `defaults
  mode http
  timeout connect 5000
  timeout client 50000
  timeout server 50000
frontend shop
  bind 127.0.0.1:${port}
  default_backend store
backend store
  option httpchk GET /readyz
  option forwardfor
${backendPorts.map((backend, index) => `  server store-${index} 127.0.0.1:${backend} check inter 500`).join('\n')}
`,
    }),
    args: (folder) => ['-db', '-f', join(folder, 'haproxy.cfg')],
  })
}
