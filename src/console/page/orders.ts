import { showCustomerList } from './customer-list.ts'
import { showCustomer } from './customer-view.ts'
import { showOrderList } from './order-list.ts'
import { showOrder } from './order-view.ts'
import type { Screen } from './screen.ts'

/** `#orders` lists orders, `?order=ID` shows one, `?customers=1` lists customers, `?customer=ID` shows one. */
export const orders: Screen = {
  title: 'Orders',
  scopes: ['orders:read'],
  open(root, context) {
    const { parameters, may } = context
    const orderId = parameters.get('order')
    const customerId = parameters.get('customer')
    if (orderId !== null) showOrder(root, orderId, context)
    else if (customerId !== null && may('customers:read')) showCustomer(root, customerId, context)
    else if (parameters.has('customers') && may('customers:read')) showCustomerList(root, context)
    else showOrderList(root, context)
  },
}
