"""Exercises the client that was generated from the served contract.

Arguments: the directory of the generated package, the base URL, an API key, and
a key with insufficient scopes. A last argument "removed" expects getPet to be
past its sunset date; "failing" expects the service to fail.
"""

import importlib
import re
import sys

directory, base, key, narrow_key, *rest = sys.argv[1:]
sys.path.insert(0, directory)
generated = importlib.import_module("petstore_client")
api = "petstore_client.api.animals"
create_pet = importlib.import_module(f"{api}.create_pet")
list_pets = importlib.import_module(f"{api}.list_pets")
get_pet = importlib.import_module(f"{api}.get_pet")
update_pet = importlib.import_module(f"{api}.update_pet")
list_orders = importlib.import_module(f"{api}.list_orders")
place_order = importlib.import_module(f"{api}.place_order")
get_order = importlib.import_module(f"{api}.get_order")
complete_order = importlib.import_module(f"{api}.complete_order")
cancel_order = importlib.import_module(f"{api}.cancel_order")
get_inventory = importlib.import_module(f"{api}.get_inventory")
models = importlib.import_module("petstore_client.models")


def client(token):
    return generated.AuthenticatedClient(base_url=base, token=token)


def expect(response, status, code):
    assert response.status_code == status, response
    assert isinstance(response.parsed, models.Error), response
    assert (response.parsed.code.value, response.parsed.status) == (code, status), response.parsed
    assert response.parsed.message


shop = client(key)
if rest == ["removed"]:
    expect(get_pet.sync_detailed(1, client=shop), 410, "operation_removed")
    sys.exit()
if rest == ["failing"]:
    expect(list_pets.sync_detailed(client=shop), 500, "internal_error")
    expect(get_pet.sync_detailed(1, client=shop), 500, "internal_error")
    sys.exit()

large = 2**53 + 1
created = [
    create_pet.sync_detailed(
        client=shop,
        body=models.NewPet(name=f"Pet {n}", category_id=large, status=models.PetStatus.SOLD),
    )
    for n in range(5)
]
assert all(response.status_code == 201 for response in created), created
ids = [response.parsed.id for response in created]
assert created[0].parsed.category_id == large

walked, cursor = [], {}
while cursor is not None:
    page = list_pets.sync_detailed(client=shop, limit=2, status=models.PetStatus.SOLD, **cursor)
    walked += [pet.id for pet in page.parsed]
    following = re.search(r"[?&]cursor=([^&>]+)", page.headers.get("Link", ""))
    cursor = {"cursor": following[1]} if following else None
assert walked == ids, (walked, ids)

fetched = get_pet.sync_detailed(ids[0], client=shop)
assert fetched.parsed == created[0].parsed
unchanged = get_pet.sync_detailed(ids[0], client=shop, if_none_match=fetched.headers["ETag"])
assert unchanged.status_code == 304
assert list_orders.sync(client=shop) == []

rex = create_pet.sync(client=shop, body=models.NewPet("Rex", 1, models.PetStatus.AVAILABLE))
claim = {"client": shop, "body": models.NewOrder(pet_id=rex.id)}
order = place_order.sync(**claim, idempotency_key="till-1")
assert order.status == models.OrderStatus.PLACED, order
again = place_order.sync_detailed(**claim, idempotency_key="till-1")
assert (again.headers["Idempotent-Replayed"], again.parsed) == ("true", order), again
expect(place_order.sync_detailed(**claim), 409, "pet_not_available")
change = models.PetChange(status=models.PetStatus.SOLD)
expect(update_pet.sync_detailed(rex.id, client=shop, body=change), 409, "pet_reserved")
done = complete_order.sync(order.id, client=shop)
assert done.status == models.OrderStatus.COMPLETED, done
assert get_order.sync(order.id, client=shop) == done
expect(cancel_order.sync_detailed(order.id, client=shop), 409, "order_not_open")
assert update_pet.sync(rex.id, client=shop, body=models.PetChange(status=None)).name == "Rex"
assert get_inventory.sync(client=shop) == models.Inventory(available=0, pending=0, sold=5)

animal = models.NewPet(name="A", category_id=1)
expect(list_pets.sync_detailed(client=shop, limit=0), 400, "invalid_parameter")
expect(create_pet.sync_detailed(client=shop, body=models.NewPet("", 1)), 400, "invalid_body")
expect(list_pets.sync_detailed(client=generated.Client(base_url=base)), 401, "missing_api_key")
expect(list_pets.sync_detailed(client=client("psk_typo")), 401, "invalid_api_key")
expect(create_pet.sync_detailed(client=client(narrow_key), body=animal), 403, "insufficient_scope")
expect(get_pet.sync_detailed(999_999, client=shop), 404, "not_found")
animal.additional_properties["padding"] = "x" * 70_000
expect(create_pet.sync_detailed(client=shop, body=animal), 413, "body_too_large")
