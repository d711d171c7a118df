import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Dockerfile, DockerfileParser } from 'dockerfile-ast'
import { parseAllDocuments } from 'yaml'

export const ROOT = fileURLToPath(new URL('..', import.meta.url))
export const KUBERNETES = join(ROOT, 'deploy/kubernetes')

export const textOf = (file: string): string => readFileSync(join(ROOT, file), 'utf8')

export interface Service {
  image: string
  build?: string
  entrypoint?: string[]
  command?: string[]
  environment?: Record<string, string>
  volumes?: string[]
  user?: string
}

/** The services of compose.yaml, with these values for its variables. */
export function readServices(variables: Readonly<Record<string, string>>): Record<string, Service> {
  return (readYaml('compose.yaml', variables)[0] as { services: Record<string, Service> }).services
}

/**
 * The documents of a YAML file; `${NAME:?}` in it is a variable, as in compose.yaml. Throws for one without a value.
 */
export function readYaml(file: string, variables: Readonly<Record<string, string>> = {}): unknown[] {
  const text = textOf(file).replaceAll(/\$\{(\w+):\?\}/g, (_, name: string) => {
    const value = variables[name]
    if (value === undefined) throw new Error(`${file}: ${name} has no value`)
    return value
  })
  return parseAllDocuments(text, { merge: true }).map((document) => {
    if (document.errors.length > 0) throw new Error(`${file}: ${document.errors.join(', ')}`)
    // Expands aliases: each is a copy.
    return structuredClone(document.toJS({ maxAliasCount: -1 }))
  })
}

/** The names in deploy/compose/example.env. */
export function listVariables(): string[] {
  return [...textOf('deploy/compose/example.env').matchAll(/^(\w+)=$/gm)].map(([, name = '']) => name)
}

export interface Manifest {
  apiVersion: string
  kind: string
  metadata: { name: string }
  spec?: unknown
  items?: Manifest[]
}

/** Every object of deploy/kubernetes, those of lists one by one. */
export function readManifests(): Manifest[] {
  const manifests = readdirSync(KUBERNETES).flatMap((name) => readYaml(`deploy/kubernetes/${name}`) as Manifest[])
  return manifests.flatMap((manifest) => (manifest.kind === 'List' ? (manifest.items ?? []) : [manifest]))
}

/** The argument of the last instruction with a keyword. */
export function lastOf(dockerfile: Dockerfile, keyword: string): string {
  const instruction = dockerfile.getInstructions().findLast((each) => each.getKeyword() === keyword)
  return instruction?.getRawArgumentsContent() ?? ''
}

/** What the image sets. */
export function imageSettings(): Record<string, string> {
  const line = lastOf(DockerfileParser.parse(textOf('Dockerfile')), 'ENV')
  return Object.fromEntries([...line.matchAll(/(\w+)=(\S+)/g)].map(([, name = '', value = '']) => [name, value]))
}

/** What the image runs. */
export function imageCommands(): { entrypoint: string[]; command: string[]; healthcheck: string[] } {
  const dockerfile = DockerfileParser.parse(textOf('Dockerfile'))
  const [, healthcheck = ''] = /CMD (\[.*\])$/.exec(lastOf(dockerfile, 'HEALTHCHECK')) ?? []
  return {
    entrypoint: JSON.parse(lastOf(dockerfile, 'ENTRYPOINT')),
    command: JSON.parse(lastOf(dockerfile, 'CMD')),
    healthcheck: JSON.parse(healthcheck),
  }
}
