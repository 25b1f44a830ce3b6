"""Exercises the client that was generated from the served contract.

Arguments: the directory of the generated package, the base URL, an API key, and
a key with insufficient scopes. A last argument "removed" expects getPet to be
past its sunset date; "failing" expects the service to fail; "unknown" expects a
service that answers everything with an error that the contract does not list.
"""

import base64
import datetime
import importlib
import io
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
delete_pet = importlib.import_module(f"{api}.delete_pet")
add_photo = importlib.import_module(f"{api}.add_photo")
get_photo = importlib.import_module(f"{api}.get_photo")
change_pets = importlib.import_module(f"{api}.change_pets")
list_categories = importlib.import_module(f"{api}.list_categories")
put_category = importlib.import_module(f"{api}.put_category")
delete_category = importlib.import_module(f"{api}.delete_category")
list_orders = importlib.import_module(f"{api}.list_orders")
place_order = importlib.import_module(f"{api}.place_order")
get_order = importlib.import_module(f"{api}.get_order")
complete_order = importlib.import_module(f"{api}.complete_order")
update_order = importlib.import_module(f"{api}.update_order")
cancel_order = importlib.import_module(f"{api}.cancel_order")
return_order = importlib.import_module(f"{api}.return_order")
get_inventory = importlib.import_module(f"{api}.get_inventory")
get_current_key = importlib.import_module("petstore_client.api.keys.get_current_key")
list_keys = importlib.import_module("petstore_client.api.keys.list_keys")
models = importlib.import_module("petstore_client.models")
types = importlib.import_module("petstore_client.types")
unset = importlib.import_module("petstore_client.types").UNSET


def client(token):
    return generated.AuthenticatedClient(base_url=base, token=token)


def expect(response, status, code):
    assert response.status_code == status, response
    assert isinstance(response.parsed, models.Error), response
    assert (response.parsed.code, response.parsed.status) == (code, status), response.parsed
    assert response.parsed.message
    return response


shop = client(key)
if rest == ["removed"]:
    expect(get_pet.sync_detailed(1, client=shop), 410, "operation_removed")
    sys.exit()
if rest == ["failing"]:
    expect(list_pets.sync_detailed(client=shop), 500, "internal_error")
    expect(get_pet.sync_detailed(1, client=shop), 500, "internal_error")
    sys.exit()
if rest == ["unknown"]:
    dogs = models.NewCategory(name="Dogs")
    for response in [
        list_pets.sync_detailed(client=shop),
        create_pet.sync_detailed(client=shop, body=models.NewPet(name="A", category_id=1)),
        update_pet.sync_detailed(1, client=shop, body=models.PetChange(name="B")),
        delete_pet.sync_detailed(1, client=shop),
        put_category.sync_detailed(1, client=shop, body=dogs),
        place_order.sync_detailed(client=shop, body=models.NewOrder(pet_id=1)),
        return_order.sync_detailed(1, client=shop),
    ]:
        expect(response, 400, "pet_on_holiday")
        assert response.parsed["until"] == "2027-01-07", response.parsed
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

# Two grey pixels.
picture = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAAAAADRSSBWAAAAC0lEQVR4nGNoaAAAAYMBARg1IhUAAAAASUVORK5CYII="
)
image = types.File(payload=io.BytesIO(picture))
added = add_photo.sync_detailed(ids[4], client=shop, body=image)
assert added.status_code == 201 and (added.parsed.width, added.parsed.height) == (2, 1), added
fetched = get_photo.sync(ids[4], added.parsed.id, client=shop)
assert fetched.payload.read().startswith(b"\xff\xd8")


def find(**query):
    return [pet.id for pet in list_pets.sync(client=shop, **query)]


newest_first = ids[::-1]
assert find(sort=models.SortOrder.DESC) == newest_first
assert find(id=f"{ids[3]},{ids[1]},{ids[3]},999999") == [ids[1], ids[3]]
assert find(id=f"{ids[0]}", status=models.PetStatus.AVAILABLE) == []
assert find(category_id=large) == ids
assert find(category_id=-large) == []
assert find(name="pET ") == ids
assert find(name="pet", sort=models.SortOrder.DESC) == newest_first
assert find(name="pet 3", category_id=large, status=models.PetStatus.SOLD) == [ids[3]]
assert find(name="%") == []
page = list_pets.sync_detailed(client=shop, limit=2)
cursor = re.search(r"[?&]cursor=([^&>]+)", page.headers["Link"])[1]
assert find(limit=3, cursor=cursor) == ids[2:]
expect(list_pets.sync_detailed(client=shop, cursor=cursor, name="p"), 400, "invalid_parameter")

fetched = get_pet.sync_detailed(ids[0], client=shop)
assert fetched.parsed == created[0].parsed
unchanged = get_pet.sync_detailed(ids[0], client=shop, if_none_match=fetched.headers["ETag"])
assert unchanged.status_code == 304
assert list_orders.sync(client=shop) == []

changes = [
    models.BatchCreate(create=models.NewPet(name="Pip", category_id=9)),
    models.BatchUpdate(id=ids[4], update=models.PetChange(name="Pet 4")),
    models.BatchDelete(id=999999, delete=True),
]
results = change_pets.sync(client=shop, body=models.PetBatch(changes=changes)).results
assert [result.status for result in results] == [201, 200, 404], results
assert results[2].error.code == "not_found", results
assert delete_pet.sync_detailed(results[0].id, client=shop).status_code == 204

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
withdraw = models.PetChange(status=None)
expect(update_pet.sync_detailed(rex.id, client=shop, body=withdraw), 409, "pet_sold")
assert get_inventory.sync(client=shop) == models.Inventory(available=0, pending=0, sold=6, total=6)
returned = return_order.sync(order.id, client=shop)
assert returned.status == models.OrderStatus.RETURNED, returned
expect(return_order.sync_detailed(order.id, client=shop), 409, "order_not_returnable")
assert get_inventory.sync(client=shop) == models.Inventory(available=1, pending=0, sold=5, total=6)

second = place_order.sync(**claim)
expect(delete_pet.sync_detailed(rex.id, client=shop), 409, "pet_reserved")
assert cancel_order.sync(second.id, client=shop).status == models.OrderStatus.CANCELLED
outdated = get_pet.sync_detailed(rex.id, client=shop).headers["ETag"]
renamed = update_pet.sync_detailed(rex.id, client=shop, body=models.PetChange(name="Max"))
expect(delete_pet.sync_detailed(rex.id, client=shop, if_match=outdated), 412, "precondition_failed")
gone = delete_pet.sync_detailed(rex.id, client=shop, if_match=renamed.headers["ETag"])
assert (gone.status_code, gone.parsed) == (204, None), gone
expect(delete_pet.sync_detailed(rex.id, client=shop), 404, "not_found")
expect(place_order.sync_detailed(**claim), 404, "not_found")
orders = list_orders.sync(client=shop, pet_id=rex.id, sort=models.SortOrder.DESC)
assert [kept.id for kept in orders] == [second.id, order.id], orders

details = models.NewPet(
    name="Juniper",
    category_id=1,
    status=models.PetStatus.AVAILABLE,
    breed="Cavalier",
    sex=models.PetSex.FEMALE,
    birth_date=datetime.date(2026, 8, 2),
    microchip="985-112-004-567-890",
    price=models.Price(amount=145_000, currency=models.Currency.USD),
    source=models.Source(name="Hollow Oak", licence="52-B-0187"),
    metadata=models.Metadata.from_dict({"litter": "2026-07"}),
)
juniper = create_pet.sync(client=shop, body=details)
expected = {**details.to_dict(), "id": juniper.id, "microchip": "985112004567890"}
assert juniper.to_dict() == expected, juniper
assert find(microchip="985 112 004 567 890") == [juniper.id]
expect(create_pet.sync_detailed(client=shop, body=details), 409, "microchip_taken")
cheaper = models.PetChange(price=models.PriceChange(amount=99_900), breed=None)
cheaper = update_pet.sync(juniper.id, client=shop, body=cheaper)
assert (cheaper.price.to_dict(), cheaper.breed) == (
    {"amount": 99_900, "currency": "USD"},
    unset,
), cheaper
buyer = models.Buyer(name="Ada Moreno", contact="ada@example.com")
sale = models.NewOrder(pet_id=juniper.id, buyer=buyer, reference="R-1")
sale = place_order.sync(client=shop, body=sale)
assert (sale.buyer, sale.price, sale.reference) == (buyer, cheaper.price, "R-1"), sale
corrected = models.OrderChange(reference="R-2", buyer=models.BuyerChange(contact=None))
corrected = update_order.sync(sale.id, client=shop, body=corrected)
assert (corrected.reference, corrected.buyer) == ("R-2", models.Buyer(name="Ada Moreno")), corrected
erased = update_order.sync(sale.id, client=shop, body=models.OrderChange(buyer=None))
assert "buyer" not in erased.to_dict(), erased
cancel_order.sync(sale.id, client=shop)
rejected = models.OrderChange(reference="R-3")
expect(update_order.sync_detailed(sale.id, client=shop, body=rejected), 409, "order_not_changeable")

dogs = models.NewCategory(name="Dogs")
created = put_category.sync_detailed(large, client=shop, body=dogs, if_none_match="*")
assert (created.status_code, created.parsed) == (201, models.Category(id=large, name="Dogs")), created
again = put_category.sync_detailed(large, client=shop, body=dogs, if_none_match="*")
expect(again, 412, "precondition_failed")
taken = put_category.sync_detailed(-1, client=shop, body=models.NewCategory(name="DOGS"))
expect(taken, 409, "category_name_taken")
hounds = models.NewCategory(name="Hounds")
renamed = put_category.sync_detailed(large, client=shop, body=hounds, if_match=created.headers["ETag"])
assert (renamed.status_code, renamed.parsed.name) == (200, "Hounds"), renamed
assert put_category.sync(-1, client=shop, body=dogs).id == -1
assert [category.id for category in list_categories.sync(client=shop)] == [-1, large]
assert delete_category.sync_detailed(-1, client=shop).status_code == 204
expect(delete_category.sync_detailed(-1, client=shop), 404, "not_found")

current = get_current_key.sync(client=client(narrow_key))
assert (current.name, current.scopes) == ("test", ["orders:read"]), current
assert current.id in [key.id for key in list_keys.sync(client=shop)]

strict = {"prefer": "handling=strict"}
typo = models.NewPet(name="A", category_id=1)
typo.additional_properties["stauts"] = "sold"
assert create_pet.sync_detailed(client=shop, body=typo).status_code == 201
rejected = expect(create_pet.sync_detailed(client=shop, body=typo, **strict), 400, "invalid_body")
assert "stauts" in rejected.parsed.message, rejected.parsed
for response in [rejected, list_pets.sync_detailed(client=shop, **strict)]:
    assert response.headers["Preference-Applied"] == "handling=strict", response
assert "Preference-Applied" not in list_pets.sync_detailed(client=shop).headers

animal = models.NewPet(name="A", category_id=1)
expect(list_pets.sync_detailed(client=shop, limit=0), 400, "invalid_parameter")
expect(create_pet.sync_detailed(client=shop, body=models.NewPet("", 1)), 400, "invalid_body")
expect(list_pets.sync_detailed(client=generated.Client(base_url=base)), 401, "missing_api_key")
expect(list_pets.sync_detailed(client=client("psk_typo")), 401, "invalid_api_key")
expect(create_pet.sync_detailed(client=client(narrow_key), body=animal), 403, "insufficient_scope")
expect(get_pet.sync_detailed(999_999, client=shop), 404, "not_found")
animal.additional_properties["padding"] = "x" * 70_000
expect(create_pet.sync_detailed(client=shop, body=animal), 413, "body_too_large")
