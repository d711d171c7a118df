import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { type Cleanup, onCleanup } from './cleanup.ts'

export interface ToolAnswer {
  isError: boolean
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the answer holds and asserts on it
  json: any
}

export interface Agent {
  client: Client
  call(name: string, args?: Record<string, unknown>): Promise<ToolAnswer>
  /** Previews a change. */
  preview(operation: string, args: Record<string, unknown>): Promise<ToolAnswer>
  commit(operation: string, args: unknown, hash: unknown): Promise<ToolAnswer>
}

/** A client of the official SDK, connected to `/mcp` of a store that listens. */
export async function connectAgent(
  t: Cleanup,
  { port }: { port: number },
  key: string,
  mode: 'legacy' | 'auto' = 'legacy',
): Promise<Agent> {
  const client = new Client({ name: 'a test', version: '1' }, { versionNegotiation: { mode } })
  const requestInit = { headers: { authorization: `Bearer ${key}` } }
  onCleanup(t, () => client.close())
  await client.connect(new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}/mcp`), { requestInit }))
  const call: Agent['call'] = async (name, args = {}) => {
    const { isError, structuredContent, content } = await client.callTool({ name, arguments: args })
    const [text] = content as { type: string; text: string }[]
    if (JSON.stringify(structuredContent) !== text?.text) throw new Error('the text differs from the structured content')
    return { isError: isError === true, json: structuredContent }
  }
  return {
    client,
    call,
    async preview(operation, args) {
      const answer = await call(operation, args)
      if (answer.isError) throw new Error(JSON.stringify(answer.json))
      return answer
    },
    commit: (operation, args, hash) => call('commit', { operation, arguments: args, hash }),
  }
}
