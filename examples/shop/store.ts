// In your own project: export * from '@storefront/client'
export * from '../../client/src/index.ts'
