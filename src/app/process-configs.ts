import { availableParallelism, totalmem } from 'node:os'
import type { Config } from '../config.ts'
import { connectionsOf } from './pool-sizes.ts'

/** Two processes with PostgreSQL take 400 MiB under load, and queries of the lake up to as much. */
const MEMORY_FOR_TWO_BYTES = 2 ** 30

const MACHINE = { cores: availableParallelism(), memory: Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY) }

/**
 * The settings of each process. With two or more processes, the pipeline has its own, so its work delays no request.
 * `cores` and `memory` in bytes are those of the machine or of its container.
 */
export function processConfigs(config: Config, { cores, memory }: typeof MACHINE = MACHINE): [Config, ...Config[]] {
  const pipeline = config.roles.filter((role) => role !== 'api')
  const isDivisible = config.roles.includes('api') && pipeline.length > 0
  const count = config.webConcurrency ?? (isDivisible && cores > 1 && memory >= MEMORY_FOR_TWO_BYTES ? 2 : 1)
  if (count === 1 || !config.roles.includes('api')) return [config]
  const pipelines = pipeline.length === 0 ? [] : [{ ...config, roles: pipeline }]
  const apiProcesses = count - pipelines.length
  const api: Config = { ...config, roles: ['api'], apiProcesses }
  const others = [...Array.from({ length: apiProcesses - 1 }, () => api), ...pipelines]
  // The first process shows the metrics and the state of all processes.
  return [api, ...others.map((each) => ({ ...each, operations: null }))]
}

/** The most database connections of all processes of a start. */
export function connectionsOfStart(config: Config): number {
  return processConfigs(config).reduce((sum, each) => sum + connectionsOf(each), 0)
}
