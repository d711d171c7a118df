import SerializerSelector from '@fastify/fast-json-stringify-compiler'
import type { FastifySchemaCompiler, FastifyServerOptions } from 'fastify'
import type { TSchema } from 'typebox'
import { compileValidator } from './validation.ts'

/** Compiles each schema of a route for its first request: see docs/decisions/0252-what-a-start-waits-for.md. */
export const compilersWhenUsed: NonNullable<FastifyServerOptions['schemaController']>['compilersFactory'] = {
  buildValidator: () => compileValidatorWhenUsed as never,
  buildSerializer(sharedSchemas, options) {
    const compile = SerializerSelector()(sharedSchemas, options)
    return (route) => whenUsed(() => compile(route))
  },
}

const compileValidatorWhenUsed: FastifySchemaCompiler<TSchema> = (route) => whenUsed(() => compileValidator(route))

function whenUsed<A, R>(compile: () => (input: A) => R): (input: A) => R {
  let compiled: ((input: A) => R) | undefined
  return (input) => {
    compiled ??= compile()
    return compiled(input)
  }
}
