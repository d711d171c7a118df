// In a project of your own: export * from '@storefront/client'
export * from '../../client/src/index.ts'
